import LarderUpstream

// When a host asks its source, and when it connects to it again. The moments follow from the identity of the host.

extension NamespaceConfiguration {
    /// When the source is polled. A file, an event stream and etcd signal changes; polling only finds what a signal missed.
    func schedule(hostIdentity: String) -> PollSchedule {
        switch remote {
        case .http(let http):
            PollSchedule(
                interval: http.interval, seed: hostIdentity + "\u{0}" + http.url,
                firstFetchWindow: http.firstFetchWindow)
        case .sse(let sse):
            PollSchedule(
                interval: sse.interval, seed: sse.seed(hostIdentity), firstFetchWindow: sse.firstFetchWindow)
        case .etcd(let etcd):
            PollSchedule(
                interval: etcd.interval, seed: etcd.seed(hostIdentity), firstFetchWindow: etcd.firstFetchWindow)
        case .file, nil:
            PollSchedule(interval: .seconds(60), seed: hostIdentity)
        }
    }
}

extension NamespaceConfiguration.SSE {
    fileprivate func seed(_ hostIdentity: String) -> String { hostIdentity + "\u{0}" + url }

    /// When a stream that ended is opened again.
    func reconnectPlan(hostIdentity: String) -> ReconnectPlan {
        ReconnectPlan(
            window: ReconnectPlan.window(reconnectWindow, interval: interval), firstFetchWindow: firstFetchWindow,
            seed: seed(hostIdentity))
    }
}

extension NamespaceConfiguration.Etcd {
    fileprivate func seed(_ hostIdentity: String) -> String { hostIdentity + "\u{0}" + location }

    /// When a watch that ended is replaced.
    func reconnectPlan(hostIdentity: String) -> ReconnectPlan {
        ReconnectPlan(
            window: ReconnectPlan.window(
                reconnectWindow, interval: interval, hasOtherEndpoints: endpoints.count > 1),
            firstFetchWindow: firstFetchWindow, seed: seed(hostIdentity))
    }
}
