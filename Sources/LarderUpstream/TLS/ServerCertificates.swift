import Glibc
internal import NIOCore
internal import NIOPosix
internal import NIOSSL

/// The validity periods of the certificates that a server presents. Used to find out why the certificates are not
/// trusted, because the TLS library does not report the reason.
struct ServerCertificates: Sendable {
    /// When a certificate is valid, in seconds since 1970.
    struct Validity: Sendable, Equatable {
        let begin: Int
        let end: Int
    }

    /// The first period is that of the server's own certificate.
    let validities: [Validity]

    /// Opens a new connection to read the certificates, and closes the connection before the handshake completes.
    ///
    /// - Parameters:
    ///   - address: the address to connect to; nil for any address of the host
    ///   - timeout: the maximum time for the connection and the handshake together
    /// - Returns: nil if the server cannot be reached, the timeout expires, or the task is cancelled
    static func read(
        from url: FetchURL, at address: String?, on group: any EventLoopGroup, timeout: Duration
    ) async -> ServerCertificates? {
        guard let context = try? NIOSSLContext(configuration: .makeClientConfiguration()) else { return nil }
        let loop = group.next()
        let result = loop.makePromise(of: [Validity].self)
        let limit = loop.scheduleTask(in: TimeAmount(timeout)) {
            result.fail(ChannelError.connectTimeout(TimeAmount(timeout)))
        }
        let connection = ClientBootstrap(group: loop)
            .connectTimeout(TimeAmount(timeout))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = try NIOSSLClientHandler(
                        context: context, serverHostname: url.host.address == nil ? url.host.name : nil,
                        customVerificationCallback: { certificates, verdict in
                            result.succeed(certificates.map(Validity.init))
                            verdict.succeed(.failed)
                        })
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
            .connect(host: address ?? url.host.text, port: url.port)
        connection.whenFailure { result.fail($0) }
        connection.whenSuccess { $0.closeFuture.whenComplete { _ in result.fail(ChannelError.eof) } }
        let validities = await withTaskCancellationHandler {
            try? await result.futureResult.get()
        } onCancel: {
            result.fail(CancellationError())
        }
        limit.cancel()
        connection.whenSuccess { $0.close(promise: nil) }
        return validities.map(ServerCertificates.init)
    }

    /// Returns which certificate is not valid at a time, and what to do; nil if all are valid.
    /// - Parameter now: seconds since 1970
    func problem(at now: Int) -> String? {
        for (index, validity) in validities.enumerated() {
            let name = index == 0 ? "its certificate" : "an intermediate certificate"
            if now > validity.end {
                return
                    "\(name) expired on \(Self.text(validity.end)); renew it on the server, or correct the clock of this host"
            }
            if now < validity.begin {
                return
                    "\(name) is not valid before \(Self.text(validity.begin)); correct the clock of this host, or replace the certificate"
            }
        }
        return nil
    }

    /// Formats a time in UTC.
    private static func text(_ seconds: Int) -> String {
        var (time, parts) = (time_t(seconds), tm())
        gmtime_r(&time, &parts)
        let text = [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            count = buffer.withMemoryRebound(to: CChar.self) {
                strftime($0.baseAddress!, $0.count, "%F %T UTC", &parts)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

extension ServerCertificates.Validity {
    fileprivate init(_ certificate: NIOSSLCertificate) {
        self.init(begin: Int(certificate.notValidBefore), end: Int(certificate.notValidAfter))
    }
}
