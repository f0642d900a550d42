// Package volume labels PersistentVolumes with the place that their data lies in, so that the
// scheduler puts their pods there.
package volume
