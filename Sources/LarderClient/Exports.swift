// Values (`JSONValue`) and the protocol's results (`ConfigStatus.Result`, `WireError`) are part of this library's
// interface: who imports it can use their members without naming two more modules.
@_exported public import JSON
@_exported public import LarderWire
