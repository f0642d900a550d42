// Package durable replaces files in one step, so that they outlive a crash.
package durable
