// Package services tests the life of LoadBalancer Services against a real API
// server: the stock service controller inside Plinth's controller manager, and
// Plinth's own.
package services
