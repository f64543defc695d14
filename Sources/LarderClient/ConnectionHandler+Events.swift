import JSON
import LarderWire
import Synchronization

extension ConnectionHandler {
    /// Hands an event to its subscription. Events of one that this side has just ended are dropped.
    func receive(event params: JSONValue) {
        let event: ConfigEvent
        do {
            event = try ConfigEvent(params: params)
        } catch {
            return violation("the agent sent an event that cannot be read: \(error.detail)")
        }
        guard let receiver = subscriptions[event.subscription] else { return }
        do throws(LarderClientError) {
            try receiver.receive(event)
            guard case .end(let reason) = event.content else { return }
            subscriptions[event.subscription] = nil
            if reason == .denied || reason == .namespaceRemoved { return receiver.withdraw() }
            // Replies may still come, but what is asked from now on would be in vain here.
            if reason == .shutdown { isUsable.value.store(false, ordering: .relaxed) }
            receiver.interrupt(LarderClientError(.disconnected, "the agent ended the subscription (\(reason))"))
        } catch {
            finish(error)
        }
    }

    /// Ends a subscription whose events nobody wants any more, unless it has ended by itself.
    func unsubscribe(_ subscription: Int) {
        guard subscriptions.removeValue(forKey: subscription) != nil else { return }
        writeUnsubscribe(subscription)
    }

    /// Asks the agent to end a subscription.
    func writeUnsubscribe(_ subscription: Int) {
        let parameters = ConfigUnsubscribe.Parameters(subscription: subscription)
        writeNotification(ConfigUnsubscribe.name) { parameters.write(to: &$0) }
    }
}
