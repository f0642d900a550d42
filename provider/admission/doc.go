// Package admission judges each ConfigMap of an inventory before the API server stores it, by
// what that ConfigMap shows by itself: a validating webhook, which every replica of the
// controller serves, whether it leads or not.
//
// It refuses what [plinth.dev/plinth/inventory/source] would refuse in every set with that
// ConfigMap, and nothing else: what depends on other ConfigMaps, and what an edit takes away, is
// judged when the whole is taken up. Its configuration ignores failures, so nobody waits for it.
//
// The replicas share one certificate, in a Secret that is there, empty, from the beginning.
// Whoever finds it empty or near its end writes a new one, on the condition that nobody else
// has; all others read it again. Each puts the authority into the webhook's configuration
// before it serves the certificate.
package admission
