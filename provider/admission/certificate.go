package admission

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// Keys of the Secret, as in one of type kubernetes.io/tls.
const (
	keyCertificate = "tls.crt" // with its authority
	keyPrivate     = "tls.key"
	keyAuthorities = "ca.crt" // of this certificate, then of the one before
)

// newCertificate is the content of the Secret with a certificate of its own authority, whose key
// nobody keeps. The authority before stays in it: a replica that has not looked yet serves its
// certificate.
func newCertificate(host string, validity time.Duration, before []byte) (map[string][]byte, error) {
	chain, key, err := certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{Host: host, MaxAge: validity})
	if err != nil {
		return nil, err
	}
	made, err := certutil.ParseCertsPEM(chain)
	if err != nil {
		return nil, err
	}
	authorities := made[len(made)-1:]
	if old, err := certutil.ParseCertsPEM(before); err == nil {
		authorities = append(authorities, old[0])
	}
	bundle, err := certutil.EncodeCertificates(authorities...)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{keyCertificate: chain, keyPrivate: key, keyAuthorities: bundle}, nil
}

// readCertificate is the certificate in a Secret. An error says why there has to be another: it
// is of no use, or has less than a third of its time left.
func readCertificate(data map[string][]byte, host string, now time.Time) (*tls.Certificate, error) {
	if len(data[keyCertificate]) == 0 {
		return nil, errors.New("there is none yet")
	}
	pair, err := tls.X509KeyPair(data[keyCertificate], data[keyPrivate])
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[keyAuthorities]) {
		return nil, fmt.Errorf("%s has no certificate", keyAuthorities)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
		return nil, err
	}
	lasts := pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)
	if left := pair.Leaf.NotAfter.Sub(now); left < lasts/3 {
		return nil, fmt.Errorf("it ends in %s", left.Round(time.Second))
	}
	return &pair, nil
}
