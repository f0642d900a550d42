package bgp

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// offered returns the capabilities that GoBGP v4.8.0 offers for a session, in its order, so that a probe offers the same. A test
// holds them against an OPEN of GoBGP's. Graceful restart alone names no family here (RFC 4724, section 3): a probe has no
// routes that a router should keep for it.
func offered(t terms) []gobgp.ParameterCapabilityInterface {
	session := t.Session
	host, _ := os.Hostname()
	caps := []gobgp.ParameterCapabilityInterface{gobgp.NewCapRouteRefresh(), gobgp.NewCapFQDN(host, "")}
	if session.IBGP() {
		caps = append(caps, gobgp.NewCapSoftwareVersion("GoBGP/4.8.0"))
	}
	caps = append(caps, gobgp.NewCapExtendedMessage())
	if session.Families.IPv4 {
		caps = append(caps, gobgp.NewCapMultiProtocol(gobgp.RF_IPv4_UC))
	}
	if session.Families.IPv6 {
		caps = append(caps, gobgp.NewCapMultiProtocol(gobgp.RF_IPv6_UC))
	}
	caps = append(caps, gobgp.NewCapFourOctetASNumber(uint32(session.LocalASN)))
	if session.RestartTime > 0 {
		caps = append(caps, gobgp.NewCapGracefulRestart(false, false, uint16(seconds(session.RestartTime)), nil))
	}
	if session.Families.IPv4 {
		caps = append(caps, gobgp.NewCapExtendedNexthop([]*gobgp.CapExtendedNexthopTuple{gobgp.NewCapExtendedNexthopTuple(gobgp.RF_IPv4_UC, gobgp.AFI_IP6)}))
	}
	return caps
}

// namesOfCapabilities has the names that docs and routers use.
var namesOfCapabilities = map[gobgp.BGPCapabilityCode]string{
	gobgp.BGP_CAP_MULTIPROTOCOL:               "an address family",
	gobgp.BGP_CAP_ROUTE_REFRESH:               "route refresh (RFC 2918)",
	gobgp.BGP_CAP_EXTENDED_NEXTHOP:            "extended next hops (RFC 8950)",
	gobgp.BGP_CAP_EXTENDED_MESSAGE:            "extended messages (RFC 8654)",
	gobgp.BGP_CAP_GRACEFUL_RESTART:            "graceful restart (RFC 4724)",
	gobgp.BGP_CAP_FOUR_OCTET_AS_NUMBER:        "AS numbers of four octets (RFC 6793)",
	gobgp.BGP_CAP_ADD_PATH:                    "additional paths (RFC 7911)",
	gobgp.BGP_CAP_ENHANCED_ROUTE_REFRESH:      "enhanced route refresh (RFC 7313)",
	gobgp.BGP_CAP_LONG_LIVED_GRACEFUL_RESTART: "long-lived graceful restart (RFC 9494)",
	gobgp.BGP_CAP_FQDN:                        "its host name",
	gobgp.BGP_CAP_SOFT_VERSION:                "its software's version",
	capRole:                                   "a role (RFC 9234)",
}

// capRole is the code of the role capability (RFC 9234), for which GoBGP has no name.
const capRole gobgp.BGPCapabilityCode = 9

// familyNames has the names of address families in the settings of routers.
var familyNames = map[gobgp.Family]string{gobgp.RF_IPv4_UC: "IPv4 unicast", gobgp.RF_IPv6_UC: "IPv6 unicast"}

// capabilityNames lists the names of capabilities, each once.
func capabilityNames(caps []gobgp.ParameterCapabilityInterface) string {
	var all []string
	for _, c := range caps {
		name := cmp.Or(namesOfCapabilities[c.Code()], fmt.Sprintf("capability %d", c.Code()))
		if family, ok := c.(*gobgp.CapMultiProtocol); ok {
			name = cmp.Or(familyNames[family.CapValue], "another address family")
		}
		if len(all) == 0 || all[len(all)-1] != name {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// capabilities lists the capabilities that a router's error names; empty: none (RFC 5492, section 5).
func (n notification) capabilities() string {
	if n.code != gobgp.BGP_ERROR_OPEN_MESSAGE_ERROR || n.subcode != gobgp.BGP_ERROR_SUB_UNSUPPORTED_CAPABILITY {
		return ""
	}
	var caps []gobgp.ParameterCapabilityInterface
	for data := []byte(n.data); len(data) >= 2 && len(data) >= 2+int(data[1]); data = data[2+int(data[1]):] {
		c, err := gobgp.DecodeCapability(data)
		if err != nil {
			break
		}
		caps = append(caps, c)
	}
	return capabilityNames(caps)
}
