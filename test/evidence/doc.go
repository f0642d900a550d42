// Command evidence measures the figures of the docs, part by part. Each part has
//
//   - a record, docs/evidence/NAME.txt: what its benchmarks printed, in the format of Go's benchmarks
//     (golang.org/design/14313-benchmark-format), below the commit, the day and the machine;
//   - tables, tables/NAME.md here: a template that names figures of the record, with the words between several tables;
//   - a place for them in a page, between two comments, where no figure is written by hand.
//
// In a clean tree
//
//	go run -C test ./evidence               # measures all parts
//	go run -C test ./evidence new-vips      # one part
//	go run -C test ./evidence -age starts   # measures nothing
//	go run -C test ./evidence -render       # writes the tables again, after a change of a template
//
// prints in the end how far each part is behind the code that it is about; -age does so for the parts that it names.
package main
