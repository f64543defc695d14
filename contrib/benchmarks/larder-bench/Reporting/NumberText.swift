/// Formats numbers for tables.
enum NumberText {
    /// `value` with a fixed number of decimals, and with the digits before the point in groups of three: "312,480.5".
    static func grouped(_ value: Double, decimals: Int) -> String {
        guard value.isFinite, abs(value) < 1e15 else { return "\(value)" }
        var scale = 1
        for _ in 0..<decimals { scale *= 10 }
        let scaled = Int((abs(value) * Double(scale)).rounded())
        var whole = Array(String(scaled / scale))
        for position in stride(from: whole.count - 3, to: 0, by: -3) { whole.insert(",", at: position) }
        var text = (value < 0 && scaled > 0 ? "-" : "") + String(whole)
        if decimals > 0 {
            let fraction = String(scaled % scale)
            text += "." + String(repeating: "0", count: decimals - fraction.count) + fraction
        }
        return text
    }
}
