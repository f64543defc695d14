import Foundation

/// An nginx process on 127.0.0.1 that serves the subdirectory `www` of a directory.
package final class Nginx {
    package let directory: String
    package let port: Int
    private let temporaryDirectory: TemporaryDirectory?
    private let process: ChildProcess
    private let scheme: String

    /// Starts nginx.
    /// - Parameters:
    ///   - lines: additional lines for the `server` block
    ///   - directory: nil for a new temporary directory, which is removed with this object
    ///   - tls: whether to serve HTTPS with `server.pem` and `server.key` from the directory
    ///   - prepare: called with the directory before nginx starts
    package init(
        _ lines: String = "", directory given: String? = nil, tls: Bool = false, http2: Bool = false,
        prepare: (String) throws -> Void = { _ in }
    ) throws {
        temporaryDirectory = given == nil ? try TemporaryDirectory() : nil
        let directory = given ?? temporaryDirectory?.path ?? ""
        self.directory = directory
        scheme = tls ? "https" : "http"
        let tlsLines = "ssl_certificate \(directory)/server.pem; ssl_certificate_key \(directory)/server.key;"
        try FileManager.default.createDirectory(atPath: directory + "/www", withIntermediateDirectories: true)
        try prepare(directory)
        (process, port) = try Self.start(in: directory) { port in
            Self.configuration(
                directory, "\(port)\(tls ? " ssl" : "")\(http2 ? " http2" : "")", (tls ? tlsLines : "") + lines)
        }
    }

    /// Starts nginx on a free port.
    /// - Parameter configuration: returns a configuration that listens on the port
    package static func start(
        in directory: String, configuration: (_ port: Int) -> String
    ) throws -> (process: ChildProcess, port: Int) {
        // nginx does not accept port 0, and a process that is not part of the tests may take the free port before nginx
        // does. Therefore up to ten ports are tried.
        for _ in 0..<10 {
            let port = try LoopbackPort.free()
            if let process = try? start(in: directory, configuration: configuration(port)) { return (process, port) }
        }
        throw HarnessError("nginx did not start")
    }

    /// Starts nginx and waits until it listens.
    package static func start(in directory: String, configuration: String) throws -> ChildProcess {
        try configuration.write(toFile: directory + "/nginx.conf", atomically: true, encoding: .utf8)
        let process = try ChildProcess("nginx", ["-p", directory, "-c", "nginx.conf", "-e", "stderr"])
        // nginx logs `using the "epoll" event method` after it has opened its sockets.
        try process.waitForLog("using the")
        return process
    }

    package func url(_ name: String = "config.json") -> String { "\(scheme)://127.0.0.1:\(port)/\(name)" }

    /// Replaces a document.
    package func write(_ text: String, to name: String = "config.json") throws {
        try text.write(toFile: "\(directory)/www/\(name)", atomically: true, encoding: .utf8)
    }

    /// Waits for the next request and returns the status of the response, a space, and the `If-None-Match` of the
    /// request (`-` if the request has none).
    package func access(until deadline: Deadline = .usual) throws -> String {
        guard let line = try process.output.line(until: deadline, "a request to reach nginx") else {
            throw HarnessError("nginx ended")
        }
        return String(decoding: line, as: UTF8.self)
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
