import Foundation

/// A real nginx on 127.0.0.1 that serves a directory, and says of each request how it was answered.
final class NginxOrigin {
    let port: Int
    private let directory: String
    private let process: ChildProcess

    private let scheme: String

    /// Starts nginx in a directory, from which it serves `www`.
    /// - Parameters:
    ///   - tls: whether by https, with `server.pem` and `server.key` of the directory
    ///   - lines: more lines for its server
    init(directory: String, tls: Bool = false, _ lines: String = "") throws {
        self.directory = directory
        scheme = tls ? "https" : "http"
        let tlsLines = "ssl_certificate \(directory)/server.pem; ssl_certificate_key \(directory)/server.key;"
        try FileManager.default.createDirectory(atPath: directory + "/www", withIntermediateDirectories: true)
        // nginx cannot listen on "any free port", and between finding one and using it another process may take it.
        for _ in 0..<10 {
            let port = try LoopbackPort.free()
            try Self.configuration(directory, "\(port)\(tls ? " ssl" : "")", (tls ? tlsLines : "") + lines)
                .write(toFile: directory + "/nginx.conf", atomically: true, encoding: .utf8)
            let process = try ChildProcess("nginx", ["-p", directory, "-c", "nginx.conf", "-e", "stderr"])
            // It says which event method it uses after its sockets are open.
            guard (try? process.waitForLog("using the")) != nil else { continue }
            self.process = process
            self.port = port
            return
        }
        throw HarnessError("nginx did not start")
    }

    var url: String { "\(scheme)://127.0.0.1:\(port)/config.json" }

    /// Replaces the document.
    func write(_ text: String) throws {
        try text.write(toFile: directory + "/www/config.json", atomically: true, encoding: .utf8)
    }

    /// How the next request was answered: its status, and the entity tag that it brought or `-`.
    func access(until deadline: Deadline = .usual) throws -> String {
        let line = try process.output.line(until: deadline, "a request to reach nginx")
        return String(decoding: try require(line, "line in nginx's access log"), as: UTF8.self)
    }

    private static func configuration(_ directory: String, _ listen: String, _ lines: String) -> String {
        """
        daemon off; master_process off; pid nginx.pid; error_log stderr notice;
        events { worker_connections 64; }
        http {
            log_format plain '$status $http_if_none_match'; access_log /dev/stdout plain;
            client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
            types { application/json json; }
            server { listen 127.0.0.1:\(listen); root \(directory)/www; \(lines) }
        }
        """
    }
}
