// The program stands for all of Plinth's in tests: a release reads of what it was built.
package main

func main() {}
