package document

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// forms are the readers that the tags of the raw types name, and those of the types that need
// no name.
var forms map[string]any

// fieldsByType has how each key of a raw type is read.
var fieldsByType = map[reflect.Type]fields{}

func init() { // readers read raw types themselves, so neither can be initialised before the other
	forms = map[string]any{
		"string": text, "bool": truth, "inventory.ASN": readASN, "inventory.Limit": readLimit, "netip.Addr": readAddress, "netip.Prefix": readCIDR,
		"inventory.Range": readAddrRange, "inventory.Community": readCommunity, "inventory.Reservation": readReservation,
		"inventory.Learn":     word(inventory.LearnNothing, inventory.LearnDefault),
		"inventory.Mode":      word(inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay),
		"inventory.PoolState": word(inventory.PoolActive, inventory.PoolDraining, inventory.PoolDisabled),
		"inventory.State":     word(inventory.StatePlanned, inventory.StateActive, inventory.StateMaintenance, inventory.StateOff, inventory.StateRetired),
		"inventory.Via":       word(inventory.ViaBGP, inventory.ViaLink),
		"inventory.Operator":  word(inventory.OpIn, inventory.OpNotIn, inventory.OpExists, inventory.OpDoesNotExist),

		"name": checked(name), "node": checked(nodeName), "namespace": checked(namespace), "hostname": checked(hostname),
		"label": checked(labelText), "labelKey": checked(labelKey), "id": checked(machineID), "uuid": checked(uuid), "alias": checked(alias),
		"secretKey": checked(secretKey), "reason": checked(reason), "router": checked(readRouterAddr), "effect": word("NoSchedule", "PreferNoSchedule", "NoExecute"),
		"address": readAddressKey, "portal": checked(portal), "any": anyKey,
		"holdTime": readHoldTime, "gracefulRestart": readGracefulRestart, "restartTime": readRestartTime, "password": refusePassword, "bfd": readBFD,
		"sessionTrial": between(0, time.Hour),
	}
	tabulate(reflect.TypeFor[rawInventory]())
	tabulate(reflect.TypeFor[rawGracefulRestart]())
}

// fields are the keys of a mapping.
type fields map[string]field

// field is the destination of a key's value, with its reader.
type field struct {
	index []int
	read  any // a reader of the scalars in it, or entryReaders; nil: a mapping, or a list of them
	tag   reflect.StructTag
}

// entryReaders has the readers of a mapping with free keys.
type entryReaders struct {
	key   reader[string]
	value any
}

// tabulate notes the fields of a raw type, and of those in it.
func tabulate(t reflect.Type) {
	all := fields{}
	fieldsByType[t] = all
	for _, f := range reflect.VisibleFields(t) {
		if key := f.Tag.Get("key"); key != "" {
			all[key] = field{f.Index, readerOf(f.Type, f.Tag.Get("form")), f.Tag}
		}
	}
}

// readerOf returns the reader of the scalars in a type of field.
func readerOf(typ reflect.Type, form string) any {
	if value, ok := typ.FieldByName("value"); ok { // an entry
		keys, values, _ := strings.Cut(form, "=")
		return entryReaders{forms[keys].(reader[string]), readerOf(value.Type, values)}
	}
	field, ok := typ.FieldByName("v")
	switch {
	case !ok:
		tabulate(typ)
		return nil
	case field.Type.Kind() == reflect.Slice:
		return readerOf(field.Type.Elem(), form)
	}
	if low, high, ok := strings.Cut(form, ".."); ok {
		return rangeReader(field.Type, low, high)
	}
	if form == "" {
		form = field.Type.String()
	}
	return forms[form]
}

func rangeReader(t reflect.Type, low, high string) any {
	if t == reflect.TypeFor[time.Duration]() {
		least, _ := time.ParseDuration(low)
		most, _ := time.ParseDuration(high)
		return between(least, most)
	}
	least, _ := strconv.Atoi(low)
	most, _ := strconv.Atoi(high)
	return number(least, most)
}

// keys returns the keys that people may write.
func (all fields) keys() (out []string) {
	for key, f := range all {
		if f.tag.Get("hidden") == "" {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// decodable is a [scalar], [list] or [entries] that a key is read into.
type decodable interface {
	decode(d *decoder, n *yaml.Node, read any)
	merge(d *decoder, from any, once bool)
}

// mapping is a raw type.
type mapping interface{ at() **yaml.Node }

// object reads a mapping into a raw type. It reports whether there was one.
func object(decoder *decoder, node *yaml.Node, into any) bool {
	node = deref(node)
	if node == nil || isNull(node) {
		return false
	}
	if node.Kind != yaml.MappingNode {
		decoder.wrongType(node, "a mapping")
		return false
	}
	field := reflect.ValueOf(into).Elem()
	all := fieldsByType[field.Type()]
	decoder.each(node, func(key, value *yaml.Node) {
		f, ok := all[key.Value]
		switch {
		case ok && f.tag.Get("hidden") == "own" && !decoder.lenient:
			decoder.refuse(value, refusal{code: inventory.UnknownKey, message: "is written by Plinth alone, in what it keeps in the cluster", accepted: "no such key here"})
		case ok:
			decoder.field(value, field.FieldByIndex(f.index).Addr().Interface(), f.read)
		case !decoder.lenient && !strings.HasPrefix(key.Value, "x-"):
			decoder.unknownKey(node, key, all.keys())
		}
	})
	return true
}

// field reads the value of a key.
func (d *decoder) field(n *yaml.Node, into, read any) {
	if v, ok := into.(decodable); ok {
		v.decode(d, n, read)
	} else if object(d, n, into) {
		*into.(mapping).at() = deref(n)
	}
}

// decode reads a scalar.
func (s *scalar[T]) decode(d *decoder, node *yaml.Node, read any) {
	node = deref(node)
	if isNull(node) || !d.step(node) {
		return
	}
	if v, ok := advised(d, node, read.(reader[T])); ok {
		*s = scalar[T]{v, node}
	}
}

// decode reads a sequence, or a mapping with keys of the writer's own choice.
func (l *list[T]) decode(dec *decoder, node *yaml.Node, read any) {
	if p, ok := read.(entryReaders); ok {
		dec.entries(node, &l.node, func(k, v *yaml.Node) {
			var e T
			if any(&e).(interface {
				decodePair(*decoder, *yaml.Node, *yaml.Node, entryReaders) bool
			}).decodePair(dec, k, v, p) {
				l.v = append(l.v, e)
			}
		})
		return
	}
	dec.items(node, &l.node, func(item *yaml.Node) {
		if v, ok := itemOf[T](dec, item, read); ok {
			l.v = append(l.v, v)
		}
	}, func(item *yaml.Node) { itemOf[T](dec, item, read) })
}

// itemOf reads an item of a sequence, and reports whether there is one.
func itemOf[T any](decoder *decoder, item *yaml.Node, read any) (value T, ok bool) {
	switch into := any(&value).(type) {
	case interface{ given() bool }:
		decoder.field(item, &value, read)
		return value, into.given()
	case mapping:
		*into.at() = deref(item)
		return value, object(decoder, item, into)
	}
	return value, false
}

// decode reads a mapping, or a sequence of mappings.
func (l *oneOrMore[T]) decode(decoder *decoder, node *yaml.Node, read any) {
	node = deref(node)
	switch {
	case isNull(node) || node.Kind == yaml.SequenceNode:
		l.list.decode(decoder, node, read)
	case node.Kind == yaml.MappingNode:
		var one T
		into := any(&one).(mapping)
		*into.at() = node
		if object(decoder, node, into) {
			l.node, l.v = node, []T{one}
		}
	default:
		decoder.wrongType(node, "a mapping or a list of mappings")
		decoder.faults[len(decoder.faults)-1].suggestion = "{}"
	}
}

// decodePair reads a key and its value.
func (e *entry[T]) decodePair(d *decoder, k, v *yaml.Node, read entryReaders) bool {
	name, ok := advised(d, k, read.key)
	e.key = scalar[string]{name, k}
	e.value.decode(d, v, read.value)
	return ok && e.value.given()
}
