"""OpenAI's two APIs, Chat Completions and Responses, as OpenAI and many other servers speak them."""
