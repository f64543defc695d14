// Values (`JSONValue`), the protocol's results (`ConfigStatus.Result`, `WireError`) and `MappedSnapshot` are part of this
// library's interface: who imports it can use their members without naming more modules.
@_exported public import JSON
@_exported public import LarderWire
@_exported public import SnapshotFile
