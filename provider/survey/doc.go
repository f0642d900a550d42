// Package survey reads the observation that package diagnose judges: from the API server by plain lists, in
// pages, and from agents through it.
//
// It has no informers: who asks once wants no watch. Its requests for a summary do not grow with the
// number of machines but by a page for each thousand.
package survey
