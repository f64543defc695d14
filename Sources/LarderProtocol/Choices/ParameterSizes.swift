import LarderJSON

// Parameters that can be large.

extension ConfigSet.Parameters {
    package var valueSize: Int { value.textSize + ifValue.valueSize }
}

extension ConfigPush.Parameters {
    package var valueSize: Int { document.textSize }
}

extension ConfigApply.Parameters {
    package var valueSize: Int {
        changes.reduce(0) { size, change in
            guard case .set(let value, _) = change.operation else { return size + change.ifValue.valueSize }
            return size + value.textSize + change.ifValue.valueSize
        }
    }
}

extension ConfigWait.Parameters {
    package var valueSize: Int {
        switch condition {
        case .equals(let value), .notEquals(let value): value.textSize
        case .exists, .revisionAtLeast: 0
        }
    }
}

extension ImagePut.Parameters {
    package var valueSize: Int {
        if case .inline(let bytes) = content { bytes.count } else { 0 }
    }
}

extension WireValueCondition {
    fileprivate var valueSize: Int {
        if case .equals(let value) = self { value.textSize } else { 0 }
    }
}

// Parameters that make the agent wait.

extension ConfigGet.Parameters {
    package var waitsForNetwork: Bool { maximumAgeSeconds != nil }
}
