using System.Net.Http.Headers;
using System.Net.Http.Json;

var key = Environment.GetEnvironmentVariable("HEADGATE_KEY");
using var client = new HttpClient();
client.DefaultRequestHeaders.Authorization = new AuthenticationHeaderValue("Bearer", key);
var response = await client.PostAsJsonAsync("{url}", new { id = 1, name = "first" });
Console.WriteLine($"{(int)response.StatusCode} {await response.Content.ReadAsStringAsync()}");
