// dotnet add reference examples/clients/csharp/Headgate.Client.csproj, in a copy of Headgate's repository
using System;
using System.Collections.Generic;
using Headgate.Client;

using (var client = new HeadgateClient("{base}"{key})){from}
{
    var item = new Dictionary<string, object> { [{field}] = 1, ["name"] = "first" };
    Receipt receipt = await client.SendAsync(item, new SendOptions { ItemKey = {field} });
    Console.WriteLine((await client.WaitAsync(receipt, TimeSpan.FromSeconds(30))).Status);
}
