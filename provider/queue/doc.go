// Package queue does the keyed work of a controller: each key by one worker at a time, again
// after a pause that doubles where it failed, with the metrics of client-go's work queues.
package queue
