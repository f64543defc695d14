import Foundation
import LarderClient
import Observation

/// The part of the configuration that the user interface shows.
struct Banner: Codable {
    var text = "Welcome"
    var isVisible = true
}

@main @MainActor
struct ObservationLoop {
    static func main() async {
        let client = LarderClient()
        let model = ConfigViewModel(client.config, at: "banner", as: Banner.self, default: Banner())
        // A view does the same while it is on screen.
        let following = Task { await model.follow() }

        // The closure is the "view": a text that depends on the properties of the model. `Observations` runs it again
        // when one of the properties that it reads has changed.
        for await text in Observations({ render(model) }) {
            print(text)
            fflush(nil)
        }
        following.cancel()
    }

    static func render(_ model: ConfigViewModel<Banner>) -> String {
        let banner = model.value.map { $0.isVisible ? "“\($0.text)”" : "no banner" } ?? "no value"
        let activity = model.isLoading ? ", loading" : ""
        let error = model.lastError.map { ", error: \($0.reason)" } ?? ""
        return banner + activity + error
    }
}
