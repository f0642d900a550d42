// Package event records Events once for each thing that goes wrong, however often a controller
// comes by, and after what is more urgent.
package event
