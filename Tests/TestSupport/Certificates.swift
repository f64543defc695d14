/// Creates certificates in a directory with the openssl command.
package struct Certificates {
    private let directory: String

    package init(directory: String) { self.directory = directory }

    /// Creates a certificate authority: `NAME.pem` and `NAME.key`.
    package func makeAuthority(_ name: String) throws { try makeSelfSigned(name, "\(name) of a Larder test") }

    /// Creates a self-signed certificate: `NAME.pem` and `NAME.key`.
    /// - Parameter alternative: the `subjectAltName`, such as `IP:127.0.0.1`
    package func makeSelfSigned(_ name: String, _ subject: String, alternative: String? = nil) throws {
        try openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout \(name).key -out \(name).pem",
            ["-subj", "/CN=\(subject)"] + (alternative.map { ["-addext", "subjectAltName=\($0)"] } ?? []))
    }

    /// Creates a certificate for 127.0.0.1, signed by an authority: `NAME.pem` and `NAME.key`.
    /// - Parameter days: the number of days from now until it expires; -1 for a certificate that expired a day ago
    package func make(_ name: String, by authority: String, days: Int = 2) throws {
        try openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout \(name).key -out \(name).csr",
            ["-subj", "/CN=\(name)"])
        try openssl(
            "x509 -req -in \(name).csr -CA \(authority).pem -CAkey \(authority).key -CAcreateserial -days \(days) "
                + "-extfile /dev/stdin -out \(name).pem", input: "subjectAltName=IP:127.0.0.1\n")
    }

    private func openssl(_ words: String, _ more: [String] = [], input: String = "") throws {
        let command = try Command.run(
            "openssl", words.split(separator: " ").map(String.init) + more, directory: directory, input: input)
        guard command.end == .exit(0) else { throw HarnessError("openssl \(words): \(command.log)") }
    }
}
