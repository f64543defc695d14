import JSON
import LarderWire

extension ConnectionHandler {
    /// Hands progress to the call that it belongs to. That of one which this side has given up is dropped.
    func receive(progress params: JSONValue) {
        let progress: ImageProgress
        do {
            progress = try ImageProgress(params: params)
        } catch {
            return violation("the agent sent progress that cannot be read: \(error.detail)")
        }
        guard let id = Int(progress.request.text), let call = calls[id], !call.isAbandoned,
            case .prefetch(let receive) = call.purpose
        else { return }
        receive(progress)
    }

    /// Gives a lease back, without waiting.
    func writeRelease(_ lease: Int) {
        let parameters = ImageRelease.Parameters(lease: lease)
        writeNotification(ImageRelease.name) { parameters.write(to: &$0) }
    }
}
