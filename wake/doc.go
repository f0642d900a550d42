// Package wake wakes a goroutine that waits for work, and has one wait no longer than its context lives.
package wake
