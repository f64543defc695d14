import LarderConfig
@testable import LarderConfigSources
import LarderJSON
import LarderSettings
import Testing

@Suite("Settings errors")
struct SettingsErrorTests {
    @Test(
        "an unknown member is reported with its position, its path and the nearest name",
        arguments: [
            ("{\n  sockets: {}\n}", "2:3: sockets is not a setting; did you mean \"socket\"?"),
            ("{socket: {Path: '/x'}}", "1:11: socket.Path is not a setting; did you mean \"path\"?"),
            ("{state: {dir: '/x'}}", "1:10: state.dir is not a setting; did you mean \"directory\"?"),
            ("{log: {levle: 'info'}}", "1:8: log.levle is not a setting; did you mean \"level\"?"),
            (
                "{limits: {timeoutMilliseconds: 1}}",
                "1:11: limits.timeoutMilliseconds is not a setting; known here: sendTimeoutSeconds, connections, "
                    + "lineBytes, connectionsPerUser, leasesPerUser, queuedBytesPerUser, documentBytes, "
                    + "subscriptionsPerUser, requestsInFlightPerUser, subscriptionsPerConnection, "
                    + "requestsInFlightPerConnection"
            ),
            (
                "{namespaces: {'web.v1': {hosts: {}}}}",
                "1:26: namespaces[\"web.v1\"].hosts is not a setting; did you mean \"host\"?"
            ),
            (
                "{namespaces: {a: {host: {directroy: '/x'}}}}",
                "1:26: namespaces.a.host.directroy is not a setting; did you mean \"directory\"?"
            ),
            (
                "{namespaces: {a: {remote: {htpp: {}}}}}",
                "1:28: namespaces.a.remote.htpp is not a setting; did you mean \"http\"?"
            ),
            (
                "{namespaces: {a: {remote: {http: {url: 'http://h', interval: 5}}}}}",
                "1:52: namespaces.a.remote.http.interval is not a setting; did you mean \"intervalSeconds\"?"
            ),
            (
                "{namespaces: {a: {remote: {file: {paht: '/x'}}}}}",
                "1:35: namespaces.a.remote.file.paht is not a setting; did you mean \"path\"?"
            ),
            (
                "{namespaces: {a: {remote: {ssee: {}}}}}",
                "1:28: namespaces.a.remote.ssee is not a setting; did you mean \"sse\"?"
            ),
            (
                "{namespaces: {a: {remote: {http: {url: 'http://h', responsepath: '/a'}}}}}",
                "1:52: namespaces.a.remote.http.responsepath is not a setting; did you mean \"responsePath\"?"
            ),
            (
                "{namespaces: {a: {remote: {http: {url: 'http://h', longPoll: {waitSecond: 5}}}}}}",
                "1:63: namespaces.a.remote.http.longPoll.waitSecond is not a setting; did you mean \"waitSeconds\"?"
            ),
            (
                "{namespaces: {a: {remote: {http: {url: 'http://h', token: 'x'}}}}}",
                "1:52: namespaces.a.remote.http.token is not a setting; did you mean \"tokenFile\"?"
            ),
            (
                "{namespaces: {a: {remote: {sse: {url: 'http://h', pollURLs: 'x'}}}}}",
                "1:51: namespaces.a.remote.sse.pollURLs is not a setting; did you mean \"pollUrl\"?"
            ),
            ("{\"a\\nb\": 1}", "1:2: [\"a\\u{a}b\"] is not a setting; known here: "),
        ])
    func unknown(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try settings(text) }
        #expect(error?.code == .unknownMember)
        #expect(error?.description.hasPrefix(message) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("\n") == false)
    }

    @Test(
        "a value of the wrong type is reported with the expected type",
        arguments: [
            ("[]", "1:1: the settings must be an object in braces, not an array"),
            ("{current: {enabled: 'no'}}", "1:21: current.enabled must be true or false, not \"no\""),
            ("{limits: 5}", "1:10: limits must be an object in braces, not 5"),
            (
                "{limits: {connections: '10'}}",
                "1:24: limits.connections must be a whole number from 1 to 1000000, not \"10\""
            ),
            (
                "{limits: {sendTimeoutSeconds: true}}",
                "1:31: limits.sendTimeoutSeconds must be a number of seconds from 1 to 3600, not true"
            ),
            (
                "{socket: {mode: 660}}",
                "1:17: socket.mode must be octal permissions in quotes, such as \"0660\", not 660"
            ),
            (
                "{socket: {path: ['/x']}}",
                "1:17: socket.path must be an absolute path in quotes, of at most 107 bytes, not an array"
            ),
            ("{namespaces: ['a']}", "1:14: namespaces must be an object in braces, not an array"),
            ("{namespaces: {a: 'b'}}", "1:18: namespaces.a must be an object in braces, not \"b\""),
            ("{namespaces: {a: {secrets: 'b'}}}", "1:28: namespaces.a.secrets must be an array of strings, not \"b\""),
        ])
    func wrongType(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try settings(text) }
        #expect(error?.code == .invalid)
        #expect(error?.description == message)
    }

    @Test(
        "an invalid value is reported with the path of its member",
        arguments: [
            ("limits: {connections: 0}", "limits.connections"), ("limits: {connections: -1}", "limits.connections"),
            ("limits: {connections: 1000001}", "limits.connections"),
            ("limits: {connections: 1.5}", "limits.connections"),
            ("limits: {connections: 1e400}", "limits.connections"),
            ("limits: {connections: 99999999999999999999}", "limits.connections"),
            ("limits: {subscriptionsPerConnection: 0}", "limits.subscriptionsPerConnection"),
            ("limits: {requestsInFlightPerConnection: 65537}", "limits.requestsInFlightPerConnection"),
            ("limits: {lineBytes: 100}", "limits.lineBytes"),
            ("limits: {documentBytes: 1e12}", "limits.documentBytes"),
            ("limits: {sendTimeoutSeconds: 0}", "limits.sendTimeoutSeconds"),
            ("socket: {path: 'larder.sock'}", "socket.path"), ("socket: {path: ''}", "socket.path"),
            ("socket: {path: '/\(String(repeating: "x", count: 107))'}", "socket.path"),
            ("socket: {mode: '0668'}", "socket.mode"), ("socket: {mode: 'rw'}", "socket.mode"),
            ("socket: {mode: '7777'}", "socket.mode"), ("socket: {mode: ''}", "socket.mode"),
            ("socket: {group: ''}", "socket.group"), ("socket: {group: 'a:b'}", "socket.group"),
            ("state: {directory: '~/larder'}", "state.directory"),
            ("cache: {directory: '/a\\u0000b'}", "cache.directory"), ("log: {level: 'verbose'}", "log.level"),
            ("namespaces: {a: {durability: 'half'}}", "namespaces.a.durability"),
            ("namespaces: {a: {host: {directory: 'x'}}}", "namespaces.a.host.directory"),
            ("namespaces: {a: {schema: {enforce: 'warn'}}}", "namespaces.a.schema"),
            (
                "namespaces: {a: {schema: {path: '/s.json', maximumErrors: 21}}}", "namespaces.a.schema.maximumErrors"
            ),
            ("namespaces: {a: {remote: {}}}", "namespaces.a.remote"),
            ("namespaces: {a: {remote: {http: null, file: null}}}", "namespaces.a.remote"),
            (
                "namespaces: {a: {remote: {http: {url: 'http://h'}, file: {path: '/x'}}}}", "namespaces.a.remote"
            ),
            ("namespaces: {a: {remote: {file: {}}}}", "namespaces.a.remote.file"),
            ("namespaces: {a: {remote: {http: {}}}}", "namespaces.a.remote.http"),
            (
                "namespaces: {a: {remote: {http: {url: 'http://h', intervalSeconds: 0}}}}",
                "namespaces.a.remote.http.intervalSeconds"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'http://h', timeoutSeconds: 601}}}}",
                "namespaces.a.remote.http.timeoutSeconds"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'http://h', headers: {'a b': 'c'}}}}}",
                "namespaces.a.remote.http.headers[\"a b\"]"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'http://h', headers: {a: 5}}}}}",
                "namespaces.a.remote.http.headers.a"
            ),
            ("namespaces: {a: {remote: {http: {url: 'https://h', method: 'PUT'}}}}", "namespaces.a.remote.http.method"),
            ("namespaces: {a: {remote: {http: {url: 'https://h', body: 'x'}}}}", "namespaces.a.remote.http.body"),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', method: 'GET', body: {}}}}}",
                "namespaces.a.remote.http.body"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', responsePath: ''}}}}",
                "namespaces.a.remote.http.responsePath"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', partialData: 'drop'}}}}",
                "namespaces.a.remote.http.partialData"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', responsePath: '/~2'}}}}",
                "namespaces.a.remote.http.responsePath"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', longPoll: {}}}}}",
                "namespaces.a.remote.http.longPoll"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', longPoll: {waitSeconds: 0}}}}}",
                "namespaces.a.remote.http.longPoll.waitSeconds"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', longPoll: {waitSeconds: 1.5}}}}}",
                "namespaces.a.remote.http.longPoll.waitSeconds"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', longPoll: {waitSeconds: 5, queryMember: 'a&b'}}}}}",
                "namespaces.a.remote.http.longPoll.queryMember"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', staleIfErrorSeconds: -1}}}}",
                "namespaces.a.remote.http.staleIfErrorSeconds"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', tokenFile: 'token'}}}}",
                "namespaces.a.remote.http.tokenFile"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', tokenCredential: '../x'}}}}",
                "namespaces.a.remote.http.tokenCredential"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', tokenCredential: '..'}}}}",
                "namespaces.a.remote.http.tokenCredential"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', tokenFile: '/t', tokenCredential: 't'}}}}",
                "namespaces.a.remote.http.tokenCredential"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', tokenFile: '/t', headers: {authorization: 'x'}}}}}",
                "namespaces.a.remote.http.headers"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', certificateAuthority: 'ca.pem'}}}}",
                "namespaces.a.remote.http.certificateAuthority"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', certificate: '/c'}}}}",
                "namespaces.a.remote.http.certificate"
            ),
            (
                "namespaces: {a: {remote: {http: {url: 'https://h', privateKey: '/k'}}}}",
                "namespaces.a.remote.http.privateKey"
            ),
            (
                "namespaces: {a: {remote: {sse: {url: 'https://h', pollUrl: 'ftp://h'}}}}",
                "namespaces.a.remote.sse.pollUrl"
            ),
            (
                "namespaces: {a: {remote: {sse: {url: 'https://h', heartbeatSeconds: 0}}}}",
                "namespaces.a.remote.sse.heartbeatSeconds"
            ),
            (
                "namespaces: {a: {remote: {sse: {url: 'https://h', patchEvents: ['message']}}}}",
                "namespaces.a.remote.sse.patchEvents[0]"
            ),
            (
                "namespaces: {a: {remote: {sse: {url: 'http://h', certificateAuthority: '/ca'}}}}",
                "namespaces.a.remote.sse.certificateAuthority"
            ),
            (
                "namespaces: {a: {remote: {sse: {url: 'https://h', tokenFile: '/t', tokenCredential: 't'}}}}",
                "namespaces.a.remote.sse.tokenCredential"
            ),
            ("namespaces: {a: {remote: {sse: {}}}}", "namespaces.a.remote.sse"),
            ("namespaces: {a: {remote: {http: {url: 'http://h'}, sse: {url: 'http://h'}}}}", "namespaces.a.remote"),
        ])
    func outOfRange(text: String, member: String) {
        let error = #expect(throws: SettingsError.self) { try settings("{\(text)}") }
        #expect(error?.code == .invalid)
        #expect(error?.member == member)
        #expect(error?.description.contains(member) == true)
        #expect(error?.line == 1)
    }

    @Test(
        "a namespace name that is empty, too long or has invalid characters is refused",
        arguments: ["", "Web", "-a", ".a", "_a", "a b", "ä", "a/b", String(repeating: "a", count: 65)])
    func namespaceNames(name: String) {
        let error = #expect(throws: SettingsError.self) { try settings("{namespaces: {'\(name)': {}}}") }
        #expect(error?.code == .invalid)
        #expect(error?.reason.contains("is not a valid namespace name") == true)
    }

    @Test("valid namespace names are accepted")
    func validNamespaceNames() throws {
        let names = [String(repeating: "a", count: 64), "0", "a.b-c_d"]
        for name in names {
            #expect(try settings("{namespaces: {'\(name)': {}}}").namespaces.keys.contains(name))
        }
    }

    @Test(
        "a URL without an http or https scheme or a valid host, or with a user or a fragment, is refused",
        arguments: [
            "", "config.example.org/x", "ftp://h/", "http:/h", "http://", "http:///x", "https://?a", "http://:80/",
            "http://h:0/", "http://h:65536/", "http://h:x/", "http://user:pw@h/", "http://user@h/",
            "http://h/a b", "http://h/ä", "http://h/\\n", "http://h/#part", "http://[::1", "http://[::g]/",
            "http://[::1]x/", "http://a]b/",
        ])
    func urls(url: String) {
        let error = #expect(throws: SettingsError.self) {
            try settings("{namespaces: {a: {remote: {http: {url: '\(url)'}}}}}")
        }
        #expect(error?.code == .invalid)
        #expect(error?.member == "namespaces.a.remote.http.url")
        #expect(error?.description.contains("pw") == false)
    }

    @Test(
        "valid URLs are accepted",
        arguments: [
            "http://h", "HTTPS://h/", "http://h:1", "http://127.0.0.1:8080/a/b?c=d&e=%20", "http://[::1]:80/x",
            "https://config.example.org?x=@",
        ])
    func validURLs(url: String) throws {
        let all = try settings("{namespaces: {a: {remote: {http: {url: '\(url)'}}}}}")
        #expect(all.namespaces["a"]?.remote == .http(.init(url: url, versionPath: JSONPath(["version"]))))
    }

    @Test("a duplicate member is reported with both lines")
    func duplicates() {
        let error = #expect(throws: SettingsError.self) {
            try settings("{\n  limits: { connections: 1,\n\n    \"connections\": 2 }\n}")
        }
        #expect(error?.code == .invalid)
        #expect(
            error?.description
                == "4:5: limits.connections is given twice, first in line 2; remove one of the two")
    }

    @Test(
        "an invalid overlay is reported with its position, and the error contains none of its values",
        arguments: [
            ("5", "1:48: namespaces.a.experiments.overlays must be an array of overlays"),
            ("[5]", "1:49: namespaces.a.experiments.overlays[0] must be an object with"),
            ("[{name:'x',percentage:5}]", "1:49: namespaces.a.experiments.overlays[0] must have \"values\", an object"),
            (
                "[{name:'x',values:{}}]",
                "1:49: namespaces.a.experiments.overlays[0] must have \"percentage\" or \"units\""
            ),
            (
                "[{name:'x',percentage:101,values:{a:'hunter2'}}]",
                "1:49: namespaces.a.experiments.overlays[0] must have a number from 0 to 100 as \"percentage\""
            ),
            (
                "[{name:'x',percentage:[50,20],values:{a:'hunter2'}}]",
                "1:49: namespaces.a.experiments.overlays[0] must have a number from 0 to 100 as \"percentage\""
            ),
            (
                "[{name:'x',units:[7],values:{}}]",
                "1:49: namespaces.a.experiments.overlays[0] must have an array of strings as \"units\""
            ),
            (
                "[{name:'x',percent:5,values:{}}]",
                "1:49: namespaces.a.experiments.overlays[0] has the unknown member \"percent\""
            ),
            (
                "[{name:'x',units:[],values:{}},{name:'x',units:[],values:{}}]",
                "1:79: namespaces.a.experiments.overlays[1] has the same name as another overlay, \"x\""
            ),
        ])
    func overlays(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) {
            try settings("{namespaces: {a: {experiments: {overlays:      \(text)}}}}")
        }
        #expect(error?.description.hasPrefix(message) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("hunter2") == false)
    }
}
