import Foundation

/// Certificates made by openssl for one test, in a directory of its own.
struct Certificates {
    let directory: String

    /// Makes an authority: `NAME.pem` and `NAME.key`.
    func makeAuthority(_ name: String) throws {
        try openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout \(name).key -out \(name).pem",
            ["-subj", "/CN=\(name) of a Larder test"])
    }

    /// Makes a certificate for 127.0.0.1, `NAME.pem` and `NAME.key`, signed by an authority.
    func make(_ name: String, by authority: String) throws {
        try openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout \(name).key -out \(name).csr",
            ["-subj", "/CN=\(name)"])
        try "subjectAltName=IP:127.0.0.1\n".write(toFile: directory + "/names", atomically: true, encoding: .utf8)
        try openssl(
            "x509 -req -in \(name).csr -CA \(authority).pem -CAkey \(authority).key -CAcreateserial -days 2 "
                + "-extfile names -out \(name).pem")
    }

    private func openssl(_ words: String, _ more: [String] = []) throws {
        let command = try Command.run(
            "openssl", words.split(separator: " ").map(String.init) + more, directory: directory)
        guard command.end == .exit(0) else { throw HarnessError("openssl \(words): \(command.log)") }
    }
}
