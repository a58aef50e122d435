// Sends so many items through a batcher, as the README shows; prints how many were accepted.

using System;
using System.Threading.Tasks;
using Headgate.Client;

static class Program
{
    static void Main(string[] arguments)
    {
        SendAsync(int.Parse(arguments[0])).GetAwaiter().GetResult();
    }

    static async Task SendAsync(int count)
    {
        using (var client = new HeadgateClient())
        {
            var options = new BatcherOptions { ItemKey = "id", OnRejected = (items, error) => Console.Error.WriteLine(error.Message) };
            Batcher batcher = client.Batcher(options);
            for (int id = 0; id < count; id++)
            {
                await batcher.AddAsync(new { id, customer = new { name = "Ada Lovelace", city = "London" }, total = 12.5, status = "paid" });
            }
            await batcher.CloseAsync();
            Console.WriteLine(batcher.Stats().Accepted);
        }
    }
}
