const response = await fetch("{url}", {
  method: "POST",
  headers: {
    Authorization: `Bearer ${process.env.HEADGATE_KEY}`,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({ id: 1, name: "first" }),
});
console.log(response.status, await response.text());
