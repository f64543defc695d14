import LarderConfigModel

/// A value for each file layer.
struct PerFileLayer<Value: Sendable>: Sendable {
    private var defaults: Value
    private var host: Value

    init(_ value: (FileLayer) -> Value) {
        defaults = value(.defaults)
        host = value(.host)
    }

    subscript(layer: FileLayer) -> Value {
        get {
            switch layer {
            case .defaults: defaults
            case .host: host
            }
        }
        set {
            switch layer {
            case .defaults: defaults = newValue
            case .host: host = newValue
            }
        }
    }
}
