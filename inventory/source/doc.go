// Package source follows a folder or ConfigMaps and hands out each new valid
// inventory; it keeps the accepted one.
//
// A [Source] ([Files], [ConfigMaps]) reads what people wrote at one moment, as an [Edit]. The
// [Reconciler], which runs on the leader alone, has package edit decide on it, with the evidence that it asks
// the cluster for; stores an allowed edit in the cluster, and only then enforces it, by way of [InForce]. An edit that
// is wrong changes nothing but a log line, a metric, an Event and the status. An agent follows the accepted inventory with
// [Follow], never an edit.
//
// Three types hold the state: cachedStore the stored inventory as far as this process knows it, reporter the last report, and the
// Reconciler the edit and its progress. An acceptedStore reads and writes ConfigMaps and has none. The types accepted, which is the
// stored inventory, and [Edit] are values.
//
// Ownership: people own the ConfigMaps that bear [LabelInventory]; the Reconciler owns those
// that bear [LabelAccepted], and its keys of the status. Before you change how these are written,
// mind that
//
//   - a generation is in force with the write of the ConfigMap [AcceptedName], and with no other: a process may
//     die before and after each write (TestALeaderThatDiesAfterAnyWriteLeavesOneGenerationForAll);
//   - a slice is never changed, and its name is never used for another text;
//   - what is stored reads back, as this version and as older ones of its format do: what would not is refused before
//     the first write (TestWhatIsStoredReadsBackWhateverIsEditedAndWhoeverDies);
//   - the same content is written again at once only the first time, and then after pauses (pace);
//   - where what is stored cannot be read, what remains of it is in force, and is not stored (remains);
//   - other versions read what is stored (testdata, and docs/reference/skew.md).
package source
