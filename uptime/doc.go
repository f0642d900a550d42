// Package uptime tells for how long the machine has been running.
package uptime
