# pip install ./examples/clients/python, in a copy of Headgate's repository
from headgate import Client

with Client("{base}"{key}) as client:{from}
    receipt = client.send({{field}: 1, "name": "first"}, item_key={field})
    print(client.wait(receipt).status)
