// Package gitops holds what deploy/gitops says of the inventory's health against what the
// controller writes, with the languages of Argo CD (Lua) and Flux (CEL).
package gitops
