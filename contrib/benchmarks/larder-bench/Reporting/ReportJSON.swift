import LarderJSON

extension Report {
    /// The report as one line: `{"benchmark", "parameters": {...}, "servers": {NAME: {"metrics": {KEY: number},
    /// "samples": [number]}}, "ratio": {...} or null, "notes": [string]}`.
    func jsonText() -> String {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("benchmark", benchmark)
        writer.name("parameters")
        writer.beginObject()
        for parameter in parameters {
            writer.name(parameter.name)
            parameter.value.write(to: &writer)
        }
        writer.endObject()
        writer.name("servers")
        writer.beginObject()
        for row in rows {
            writer.name(row.name)
            row.write(to: &writer)
        }
        writer.endObject()
        writer.name("ratio")
        if let ratio { ratio.write(to: &writer) } else { writer.null() }
        writer.name("notes")
        writer.beginArray()
        for note in notes { writer.string(note) }
        writer.endArray()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

extension Report.Row {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.name("metrics")
        writer.beginObject()
        for metric in metrics {
            writer.name(metric.key)
            writer.figure(metric.value)
        }
        writer.endObject()
        writer.name("samples")
        writer.beginArray()
        for sample in samples { writer.figure(sample) }
        writer.endArray()
        writer.endObject()
    }
}

extension Report.Ratio {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("metric", metric)
        writer.member("numerator", numerator)
        writer.member("denominator", denominator)
        for (name, value) in [("median", median), ("lowest", lowest), ("highest", highest)] {
            writer.name(name)
            writer.figure(value)
        }
        writer.endObject()
    }
}

extension Report.Parameter {
    fileprivate func write(to writer: inout JSONWriter) {
        switch self {
        case .count(let count): writer.int(count)
        case .seconds(let seconds): writer.figure(seconds)
        case .text(let text): writer.string(text)
        case .flag(let flag): writer.bool(flag)
        }
    }
}

extension JSONWriter {
    /// Writes a number with at most three decimals; integers without any.
    fileprivate mutating func figure(_ value: Double) {
        let rounded = (value * 1000).rounded() / 1000
        if let whole = Int(exactly: rounded) { int(whole) } else { double(rounded) }
    }
}
