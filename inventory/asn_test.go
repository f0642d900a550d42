package inventory

import "testing"

func TestASNsOfRegistriesAreToldFromThoseForEverybody(t *testing.T) {
	for asn, want := range map[ASN]bool{
		0: false, 1: true, 64495: true,
		64496: false, 64511: false, // RFC 5398
		64512: false, 65534: false, // RFC 6996
		65536: false, 65551: false, // RFC 5398
		65552: false, 131071: false, // reserved by IANA
		131072: true, 4199999999: true,
		4200000000: false, 4294967294: false, // RFC 6996
	} {
		if got := asn.Public(); got != want {
			t.Errorf("AS %v is public: %v, want %v", asn, got, want)
		}
	}
}
