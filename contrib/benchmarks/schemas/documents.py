"""Valid documents of any size for the schemas in this folder."""

import random


def item(random, index):
    result = {"kind": random.choice(("image", "video", "page")), "seconds": random.randint(5, 60),
              "title": f"Item {index}: a headline for passers-by", "background": f"#{random.randrange(1 << 24):06x}",
              "schedule": {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "08:00", "to": "18:30"},
              "screens": ["lobby", f"floor-{index % 12}"], "weight": random.randint(1, 30) / 4}
    if result["kind"] == "image":
        result["image"] = {"url": f"https://images.example/{index}.webp", "fit": "cover",
                           "digest": f"sha256:{random.randrange(1 << 256):064x}"}
    elif result["kind"] == "video":
        result["video"] = {"url": f"https://videos.example/{index}.mp4", "muted": True, "volume": index % 101}
    else:
        result |= {"page": f"https://pages.example/{index}", "zoom": 1.25}
    return result


def playlist(random, size):
    screens = [{"name": f"floor-{index}", "width": 1920, "height": 1080, "orientation": "landscape"} for index in range(12)]
    return {"id": "0a1b2c3d", "title": "All floors", "updated": "2026-01-31T08:30:00Z", "screens": screens,
            "items": [item(random, index) for index in range(size // 313)]}


def rule(random, depth=0):
    if depth < 2 and random.random() < 0.4:
        return {random.choice(("all", "any")): [rule(random, depth + 1) for _ in range(random.randint(1, 3))]}
    if random.random() < 0.3:
        return {"attribute": "country", "operator": "in", "value": random.sample(["de", "fr", "it", "es", "pl"], 3)}
    return {"attribute": "user.age", "operator": "greaterThan", "value": random.randint(1, 99)}


def flag(random, index):
    variants = random.choice(({"on": True, "off": False}, {"red": "#ff0000", "blue": "#0000ff"}, {"low": 1, "high": 2.5}))
    name = next(iter(variants))
    result = {"state": "ENABLED", "description": f"Flag number {index}", "variants": variants, "defaultVariant": name,
              "targeting": [{"when": rule(random), "variant": name} for _ in range(random.randint(0, 3))],
              "metadata": {"owner": "checkout", "issue": index, "temporary": True}}
    if random.random() < 0.3:
        split = [{"variant": variant, "weight": 50} for variant in variants]
        result["targeting"].append({"when": rule(random), "split": split})
    return result


def flags(random, size):
    return {"flags": {f"checkout.flag-{index}": flag(random, index) for index in range(size // 472)},
            "segments": {f"segment-{index}": rule(random) for index in range(20)}, "metadata": {"version": 3}}


def document(name, size=1_000_000):
    """Returns a valid document of about `size` bytes for the schema of that name. It is the same each time."""
    return {"playlist": playlist, "flags": flags}[name](random.Random(name), size)
