import json, os, urllib.request

request = urllib.request.Request(
    "{url}",
    data=json.dumps({"id": 1, "name": "first"}).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["HEADGATE_KEY"],
        "Content-Type": "application/json",
    },
)
with urllib.request.urlopen(request) as response:
    print(response.status, response.read().decode())
