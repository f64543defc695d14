import Foundation

/// Small files from real encoders: libjpeg, libwebp 1.2.4, libavif 0.11.1, libheif with x265, libjxl. `rgb.png` was
/// written by hand in the format of libpng.
package enum EncodedImages {
    package static let all: [(name: String, type: String, width: Int, height: Int, bytes: [UInt8])] = [
        (
            "rgb.png", "png", 7, 5,
            bytes(
                """
                iVBORw0KGgoAAAANSUhEUgAAAAcAAAAFCAIAAAAG+GGPAAAAeUlEQVR4nAFuAJH/AAAHDhUcIyoxOD9GTVRbYmlwd36FjAAN
                FBsiKTA3PkVMU1phaG92fYSLkpkAGiEoLzY9REtSWWBnbnV8g4qRmJ+mACcuNTxDSlFYX2ZtdHuCiZCXnqWsswA0O0JJUFde
                ZWxzeoGIj5adpKuyucAilSdhXkUtgAAAAABJRU5ErkJggg==
                """)
        ),
        (
            "python.jpg", "jpeg", 16, 16,
            bytes(
                """
                /9j/4AAQSkZJRgABAQEAAQABAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDREN
                Dg8QEBEQCgwSExIQEw8QEBD/2wBDAQMDAwQDBAgEBAgQCwkLEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ
                EBAQEBAQEBAQEBAQEBD/wAARCAAQABADASIAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABwQF/8QAJBAAAQQBBAICAwAA
                AAAAAAAAAQIDBAYFBwgSExEiABQJMTL/xAAVAQEBAAAAAAAAAAAAAAAAAAAABv/EACMRAAECBQMFAAAAAAAAAAAAAAECEQME
                BQYhABIxFRZhgeH/2gAMAwEAAhEDEQA/ABSm0mobc8HmExLUlRzzEWPkJWW+ulrsaUVAseUgslSlH9LKuPryIKuWPZdskzXm
                m3fX5m2nF4GlVxx/HOpx4ks51+MiU/Iaad7UcUo4tILoS4kqcWkezS0hO/HvuRp0rO6hWnWO1UisZVuFi4GFeyEpmGepa5S5
                SWVPuciFKRFLgSrwetnyPIB+Vb4N9mKhQMzo5po9XLdDs9d6ZVix2VEhiL9kuNPxw2gEKcDQ/rs8AuA8VAe0vdl7VOYn+27f
                lGAUgmITjbhSmCg3BYlyeWDkMolvw4KOp1KM6iCNvngZHwetf//Z
                """)
        ),
        (
            "python.gif", "gif", 16, 16,
            bytes(
                """
                R0lGODlhEAAQAPZkAOu7GOu+IfPBGvrHGf3LG//MHOvCKv/PI//PJP/QJf/QJv/TLf3SL//TLv/TL+vFNOjHPf/TMP/UMP3V
                Nv/WN/rTOf/XOP/XOf/XOvnVPv/YOuzORf3ZQf/aQf/aQv/bQv/bQ//bRP3dSv/eS//fTf3eTv/fTv/iVf/jV//jWP/mYf/n
                Yf/nYvLhbvXjb/3pav/rbDJghzZmkDZnkTVokjZpkzZplDdoljdqljlsljhslzltmTpvmzpwnDtwnDtwnTxxnj1zoD1zoj10
                oT50oj51oz92pUB4pkB4p0F5qEJ7qkN8q0N9rUN9rkR9rUR+rUV/r0aAsEaAsUaBskeBskiDtEiEtUiFtkmFt0qHuUqGukuI
                u0yJvEyKvE2LvkyKv06NwE+NwVCPw1KRxv///wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
                AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACH5BAEAAGUAIf8LSW1hZ2VNYWdpY2sHZ2FtbWE9MAAsAAAA
                ABAAEAAAB6iAZYJlYVpSTEZAN4OMgl1kUkpEPTiNjFeRRD44NZZlX1dMRDkyOTiVjGNhXFVQR0A8NadlJyMZZWJfVFBKsDW/
                MWUjHROfV1SSQKczwRvEC2XHS0edjR0XCwdlh0czZS0vLCcmHRoLCARlTJJlLjAsKSYhFxEIBQKCQj5l7/Hl5wUKWIJnAsID
                AwEAAPAUb16EBAI9lZF3QUICMukklqnwsMAAjSAHBQIAOw==
                """)
        ),
        (
            "python.bmp", "bmp", 16, 16,
            bytes(
                """
                Qk2KBAAAAAAAAIoAAAB8AAAAEAAAABAAAAABACAAAwAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAD/AAD/AAD/AAAAAAAA/0JH
                UnOAwvUoYLgeFSCF6wFAMzMTgGZmJkBmZgagmZkJPArXAyRcjzIAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAA
                AAAAAAAAAAAAAAAAAAgAAAAdAAAANQAAAEIAAABHAAAARQAAADgAAAAfAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
                AAA/0PFMOdP6zC/S/fcm0P//HMz//xnH+tgSl8B7AAAAOwAAABIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAATt7990Tb
                //862P//MNT//ybQ////////G8v99wAAAEAAAAAcAAAACQAAAAUAAAABAAAAAgAAAAkAAAATAAAAEljj//9O3///RNv//zrX
                //8w0///JdD//xzM//8AAABBAAAANQAAACwAAAAeAAAACwAAAAgAAAAhAAAAPAAAADVi5///WOP//07f//89x+iqNMXrqSrC
                66khvuupGLvrqRi766kSm8Z5AAAAQQAAACCjdUBvonM995xwOv8AAABLbOv//2Ln//9Y4///Tt///0Pb//851///L9P//yTP
                //8czP//HMz//xKawnoAAAA0rn1D16h5Qf+hdD3/SzIcW2/j9bNs6///Yef//1fj//9N3///Q9v//znX//8u0///JM///xzM
                //8awfPCAAAAQbKBRvetfUT/pnhA/5FnNqoAAABObuHypmrp/fdh5v//V+P//03f//9C2///ONf//y7T//8kz///G8v99wAA
                AEe5h0r/soFH/6t8Q/+ldj//k2k2tkUxG1wAAABMAAAASAAAAEcAAABBRcPia0HZ/fc41///LdP//yPP//8AAABGvotN/7eF
                Sf+wgEb/qntC/6N1Pv+ccDv/lmo3/5RpNv+SaDX3h2AytgAAAE9FzuyIQtr//zfW//8t0///AAAAPcOPUP+8iUz/tYRI/69/
                Rf+oeUH/oXQ9/5tvOv+UaTb/lGk2/5RpNv+HYDK2AAAAQ0ve//9B2v//NtX97QAAACTGkVK9wY1P/7uIS/+0g0j/rX1E/6Z4
                QP+gcz3/mW05/5RpNv+UaTb/lGk2/wAAAEhV4v//St399z7V+YIAAAAKAAAAAMSPTn6/ikygtoVIoa19Q6OhdD2nlmw5qpBm
                NqqXbDj/lGk2/5RpNv8AAABIAAAAGAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC3hUn/sYBG/6p7Qv+jdT7/nXA7/5Zq
                N/+UaTb/AAAAQQAAABUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAvIpM//////+vf0X/qHlB/6J0Pv+bbzr/lGk2/wAA
                ACgAAAALAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAMCNTq+6hkrttINI/61+RP+neED/nnE895ZoN5IAAAALAAAAAwAA
                AAAAAAAAAAAAAA==
                """)
        ),
        (
            "lossy.webp", "webp", 7, 5,
            bytes(
                """
                UklGRjAAAABXRUJQVlA4ICQAAACwAQCdASoHAAUABUB8JZwAAp1HwcIAAP7dm+DA7BR8EsWEAAA=
                """)
        ),
        (
            "lossless.webp", "webp", 7, 5,
            bytes(
                """
                UklGRiwAAABXRUJQVlA4TCAAAAAvBgABAM1kRP8DStpIguCihevf7HfnYPLnICYAC0teAA==
                """)
        ),
        (
            "alpha.webp", "webp", 7, 5,
            bytes(
                """
                UklGRmIAAABXRUJQVlA4WAoAAAAQAAAABgAABAAAQUxQSBgAAAAJF6CmbQMWnumMiLiAQIDQ41yoh4j+ZzJWUDggJAAAALAB
                AJ0BKgcABQAFQHwlnAKj0PSH+lwA/tJbkKrkPx/YmQAAAA==
                """)
        ),
        (
            "plain.avif", "avif", 7, 5,
            bytes(
                """
                AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUEAAADybWV0YQAAAAAAAAAoaGRscgAAAAAAAAAAcGljdAAAAAAAAAAA
                AAAAAGxpYmF2aWYAAAAADnBpdG0AAAAAAAEAAAAeaWxvYwAAAABEAAABAAEAAAABAAABGgAAABgAAAAoaWluZgAAAAAAAQAA
                ABppbmZlAgAAAAABAABhdjAxQ29sb3IAAAAAamlwcnAAAABLaXBjbwAAABRpc3BlAAAAAAAAAAcAAAAFAAAAEHBpeGkAAAAA
                AwgICAAAAAxhdjFDgSAAAAAAABNjb2xybmNseAABAA0ABoAAAAAXaXBtYQAAAAAAAAABAAEEAQKDBAAAACBtZGF0EgAKCDgI
                tGEBDQaQMgofQD///8QAAOpF
                """)
        ),
        (
            "turned.avif", "avif", 5, 7,
            bytes(
                """
                AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUEAAAD8bWV0YQAAAAAAAAAoaGRscgAAAAAAAAAAcGljdAAAAAAAAAAA
                AAAAAGxpYmF2aWYAAAAADnBpdG0AAAAAAAEAAAAeaWxvYwAAAABEAAABAAEAAAABAAABJAAAABgAAAAoaWluZgAAAAAAAQAA
                ABppbmZlAgAAAAABAABhdjAxQ29sb3IAAAAAdGlwcnAAAABUaXBjbwAAABRpc3BlAAAAAAAAAAcAAAAFAAAAEHBpeGkAAAAA
                AwgICAAAAAxhdjFDgSAAAAAAABNjb2xybmNseAABAA0ABoAAAAAJaXJvdAEAAAAYaXBtYQAAAAAAAAABAAEFAQKDBIUAAAAg
                bWRhdBIACgg4CLRhAQ0GkDIKH0A////EAADqRQ==
                """)
        ),
        (
            "rgb.heic", "heic", 20, 12,
            bytes(
                """
                AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAXxtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA
                ACJpbG9jAAAAAERAAAEAAQAAAAABoAABAAAAAAAAAD8AAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRt
                AAAAAAABAAAA/GlwcnAAAADcaXBjbwAAAHVodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMA
                AAMAHroCQGEAAQApQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbqrprm4CGgwIAAAAyAAAADAIRiAAEABkQBwXPBiQAAABNjb2xybmNs
                eAABAA0ABoAAAAAUaXNwZQAAAAAAAABAAAAAQAAAAChjbGFwAAAAFAAAAAEAAAAMAAAAAf///9QAAAAC////zAAAAAIAAAAQcGl4
                aQAAAAADCAgIAAAAGGlwbWEAAAAAAAAAAQABBYECAwWEAAAAR21kYXQAAAA7KAGvGSFvAkDvXBZn8Ag3yd3PDBdjVvJUd92vpqGF
                gNDAycbE3+XdSfVoOW6JrvfL0LipdRTlsjAMwWA=
                """)
        ),
        (
            "alpha.heic", "heic", 10, 14,
            bytes(
                """
                AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAmttZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAA
                ADRpbG9jAAAAAERAAAIAAQAAAAACjwABAAAAAAAAADUAAgAAAAACxAABAAAAAAAAACkAAAA4aWluZgAAAAAAAgAAABVpbmZlAgAA
                AAABAABodmMxAAAAABVpbmZlAgAAAAACAABodmMxAAAAAA5waXRtAAAAAAABAAABqmlwcnAAAAGCaXBjbwAAAHVodmNDAQNwAAAA
                kAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQApQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbq
                rprm4CGgwIAAAAyAAAADAIRiAAEABkQBwXPBiQAAABNjb2xybmNseAABAA0ABoAAAAAUaXNwZQAAAAAAAABAAAAAQAAAAChjbGFw
                AAAACgAAAAEAAAAOAAAAAf///8oAAAAC////zgAAAAIAAAAQcGl4aQAAAAADCAgIAAAAcWh2Y0MBBAgAAACf+AAAAAAe8AD8/Pj4
                AAAPA2AAAQAXQAEMAf//BAgAAAMAn/gAAAMAAB66AkBhAAEAJkIBAQQIAAADAJ/4AAADAAAewIIEFluqumubAgAAAwAyAAADAAIQ
                YgABAAZEAcFzwYkAAAAOcGl4aQAAAAABCAAAACdhdXhDAAAAAHVybjptcGVnOmhldmM6MjAxNTphdXhpZDoxAAAAACBpcG1hAAAA
                AAAAAAIAAQWBAgMFhAACBYYDB4iEAAAAGmlyZWYAAAAAAAAADmF1eGwAAgABAAEAAABmbWRhdAAAADEoAa8ZIWKywO9eVb/Z216a
                LhhKZdJv9TPrULx2KgePg22+Nxl8QLNIxneJaLBETSqgAAAAJSgBrjJCchzFJA7twpyJho7oEKijHSjDegZYgLtUCWQXdrt1vvg=
                """)
        ),
        (
            "box.jxl", "jxl", 20, 12,
            bytes(
                """
                AAAADEpYTCANCocKAAAAFGZ0eXBqeGwgAAAAAGp4bCAAAACganhsY/8KWAAmDAATiAIALAK1nyAAABUqo4wbvJzr+fJDh8W0jesM
                bbVtYQljs70wSEg4Am9+S6LmWZWkTI/HJzyv0APtTn73HeKz049drwyKMAgAskqFFEiDUVV3vGOMUeTFGOOJyORADDDFAAl6TtBg
                9ROfmey1EAELQIDcQVeVxv8Vbcb6ZpiCM7ciFf03bOl00BDAnTH1x9Ad
                """)
        ),
    ]

    /// A JPEG XL codestream of 20 x 12 pixels, without a container.
    package static let opaqueJPEGXL = bytes(
        """
        /wpYACYMABOIAgAsArWfIAAAFSqjjBu8nOv58kOHxbSN6wxttW1hCWOzvTBISDgCb35LouZZlaRMj8cnPK/QA+1Ofvcd4rPTj12v
        DIowCACySoUUSINRVXe8Y4xR5MUY44nI5EAMMMUACXpO0GD1E5+Z7LUQAQtAgNxBV5XG/xVtxvpmmIIztyIV/Tds6XTQEMCdMfXH
        0B0=
        """)

    /// A JPEG XL codestream of 10 x 14 pixels with alpha, without a container.
    package static let transparentJPEGXL = bytes(
        """
        /wpoABKAlQgAEADkAEs4aJjCg3cUFEyAESVijPEyJlIRgyfEGBGDA7NoHymBmNlATDMS8vQftF+A/onsxn9/rMP/qoqUCQ==
        """)

    private static func bytes(_ base64: String) -> [UInt8] {
        [UInt8](Data(base64Encoded: base64, options: .ignoreUnknownCharacters) ?? Data())
    }
}
