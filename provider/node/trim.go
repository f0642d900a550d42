package node

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trim is the transform of the Nodes' informer. What nobody looks at is not kept: a kubelet lists up to 50 images, which are most of
// a Node, and every field manager adds what it owns, of which Plinth reads its own entry. What is written to a Node is a patch,
// so that no field is lost; what the stock node controller writes otherwise, provider/stock sends without managed fields, and the API
// server takes no status of it.
func Trim(obj any) (any, error) {
	node, ok := obj.(*v1.Node)
	if !ok {
		return obj, nil
	}
	node.Status.Images = nil
	var own []metav1.ManagedFieldsEntry
	if at := ownEntry(node); at >= 0 {
		own = []metav1.ManagedFieldsEntry{node.ManagedFields[at]}
	}
	node.ManagedFields = own
	return node, nil
}
