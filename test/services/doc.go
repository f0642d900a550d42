// Package services tests the life of LoadBalancer Services against a real API
// server, with Plinth's controller manager as it is shipped.
package services
