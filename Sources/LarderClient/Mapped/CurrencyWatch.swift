import LarderWire
import SnapshotFile

/// Ends a snapshot's currency with the first event of a subscription that began at its revision, and with the subscription.
struct CurrencyWatch: EventReceiver {
    let currency: SnapshotCurrency

    func receive(_ event: ConfigEvent) { currency.end() }

    func interrupt(_ error: LarderClientError) { currency.end() }

    func withdraw() { currency.end() }
}
