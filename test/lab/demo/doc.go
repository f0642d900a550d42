// Package demo tells the story of Plinth on a lab, step by step, on a terminal.
package demo
