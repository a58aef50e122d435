curl -i '{url}' \
  -H "Authorization: Bearer $HEADGATE_KEY" \
  -H 'Content-Type: application/json' \
  -d '{"id": 1, "name": "first"}'
