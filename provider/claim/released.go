package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// The ConfigMap that keeps which addresses are in quarantine over a restart, and how often it
// was written.
const (
	ReleasedName = "plinth-released"

	releasedKey    = "released.json"
	writesKey      = "writes"
	writesMost     = 1 << 62
	releasedFormat = 1
	releasedMost   = 900 << 10 // bytes; an object may have 1 MiB (etcd's limit is 1.5 MiB)
)

// ErrUnreadable is the error of reading a ConfigMap whose content is no list of addresses.
var ErrUnreadable = errors.New("what was released before is unreadable")

// Released is the content of the ConfigMap of released addresses.
type Released struct {
	Quarantined []ipam.Quarantined
	Writes      int64  // how often it was written; 0: an older version wrote it, or somebody by hand
	exists      bool   // there is one
	version     string // of the object
}

// released is the form in which an address in quarantine is written.
type released struct {
	Address netip.Addr `json:"address"`
	Owner   string     `json:"owner"`
	Until   time.Time  `json:"until"`
}

// ReadReleased reads the ConfigMap; where there is none it says nothing. Where the content is
// [ErrUnreadable] the rest of the answer counts all the same.
func (c Client) ReadReleased(ctx context.Context) (Released, error) {
	cm, err := c.Kube.CoreV1().ConfigMaps(c.Namespace).Get(ctx, ReleasedName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Released{}, nil
	}
	if err != nil {
		return Released{}, err
	}
	if err := inventory.CheckFormat("configmap "+ReleasedName, cm.Annotations, releasedFormat); err != nil {
		return Released{}, fmt.Errorf("which VIPs were released a moment ago is not known: %w", err)
	}
	record := Released{exists: true, version: cm.ResourceVersion}
	if n, err := strconv.ParseInt(cm.Data[writesKey], 10, 64); err == nil && n > 0 && n < writesMost {
		record.Writes = n
	}
	var all []released
	if err := json.Unmarshal([]byte(cm.Data[releasedKey]), &all); err != nil && cm.Data[releasedKey] != "" {
		return record, fmt.Errorf("configmap %s: %w: %w", ReleasedName, ErrUnreadable, err)
	}
	for _, x := range all {
		if k, ok := lb.ParseServiceKey(x.Owner); ok {
			record.Quarantined = append(record.Quarantined, ipam.Quarantined{Addr: x.Address, Owner: k, Until: x.Until})
		}
	}
	return record, nil
}

// WriteReleased writes down which addresses are in quarantine, as many as there is room for,
// if the ConfigMap is still as it was in before, and returns what it says now.
func (c Client) WriteReleased(ctx context.Context, before Released, quarantined []ipam.Quarantined) (Released, error) {
	text, room := printReleased(quarantined)
	after := Released{Quarantined: quarantined[:room], Writes: before.Writes + 1, exists: true}
	cm := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ReleasedName, Annotations: map[string]string{inventory.AnnotationFormat: strconv.Itoa(releasedFormat)}},
		Data:       map[string]string{releasedKey: text, writesKey: strconv.FormatInt(after.Writes, 10)},
	}
	configMaps := c.Kube.CoreV1().ConfigMaps(c.Namespace)
	if !before.exists {
		m, err := configMaps.Create(ctx, cm, metav1.CreateOptions{})
		if err != nil {
			return before, err
		}
		after.version = m.ResourceVersion
		return after, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": before.version, "annotations": cm.Annotations}, "data": cm.Data,
	})
	if err != nil {
		return before, err
	}
	if cm, err = configMaps.Patch(ctx, ReleasedName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return before, err
	}
	after.version = cm.ResourceVersion
	return after, nil
}

// printReleased prints as many of what is in quarantine as there is room for.
func printReleased(all []ipam.Quarantined) (text string, room int) {
	buf := []byte("[")
	for ; room < len(all); room++ {
		r := all[room]
		one, _ := json.Marshal(released{r.Addr, r.Owner.String(), r.Until.UTC().Truncate(time.Second)}) // of such a type it always succeeds
		if len(buf)+len(one)+2 > releasedMost {
			break
		}
		if room > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, one...)
	}
	return string(append(buf, ']')), room
}
