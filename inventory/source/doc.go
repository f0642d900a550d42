// Package source follows a folder or ConfigMaps and hands out each new valid
// inventory; it keeps the accepted one.
//
// A source ([Files], [ConfigMaps]) tells what stands in it at one moment, as an
// [Edit]. The [Keeper] decides whether an edit comes into force: it parses it,
// compares it with what is in force, stores it in the cluster in one slice a
// rack, and only then hands it out. What is wrong with an edit changes nothing
// but a log line, a metric, an Event and the status. An agent follows what was
// accepted with [Follow], never an edit.
package source
