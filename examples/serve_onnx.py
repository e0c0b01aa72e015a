"""An inference server on an exported network: onnxruntime, Pillow and the standard library, no geq.

    geq export geq-digits --onnx digits.onnx
    python examples/serve_onnx.py digits.onnx --port 8000
    curl --data-binary @picture.png http://127.0.0.1:8000/

A picture is answered with its class, the probability, and how the equilibria were solved; a network that did
not converge says so. What is not a picture is answered with 400. The server listens on this machine only.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

MOST_BYTES, MOST_PIXELS = 10_000_000, 64_000_000


class Classifier:
    """The network of a file, with what its metadata say about classes and images."""

    def __init__(self, path: str) -> None:
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.outputs = [output.name for output in self.session.get_outputs()]
        said = self.session.get_modelmeta().custom_metadata_map
        self.classes, self.shape = json.loads(said["classes"]), json.loads(said["shape"])
        self.equilibria = json.loads(said["equilibria"])

    def pixels(self, content: bytes) -> np.ndarray[Any, Any]:
        """The middle of a picture at the network's size, from 0 to 1, as (1, channel, height, width)."""
        channels, height, width = self.shape
        picture = Image.open(io.BytesIO(content))
        if picture.width * picture.height > MOST_PIXELS:
            raise ValueError(f"{picture.width} × {picture.height} pixels are too many")
        upright = ImageOps.exif_transpose(picture)  # as geq reads images
        colours = upright.convert("L" if channels == 1 else "RGB")
        fitted = ImageOps.fit(colours, (width, height), Image.Resampling.BILINEAR)
        values = np.asarray(fitted, np.float32).reshape(height, width, channels) / 255
        return np.ascontiguousarray(values.transpose(2, 0, 1)[None])

    def answer(self, content: bytes) -> dict[str, Any]:
        found = dict(zip(self.outputs, self.session.run(None, {"images": self.pixels(content)}), strict=True))
        logits = found["logits"][0].astype(np.float64)
        shares = np.exp(logits - logits.max())
        best = int(logits.argmax())
        result = {"class": self.classes[best], "probability": float(shares[best] / shares.sum())}
        if self.equilibria:
            result["converged"] = bool(found["converged"][0])
            result["residual"] = dict(zip(self.equilibria, found["residual"][0].tolist(), strict=True))
            result["steps"] = dict(zip(self.equilibria, found["steps"][0].tolist(), strict=True))
        return result


def server(path: str, port: int = 0) -> ThreadingHTTPServer:
    """A server for the file ``path``; port 0 takes a free one."""
    classifier = Classifier(path)

    class Handler(BaseHTTPRequestHandler):
        timeout = 30  # a client that stops in the middle does not hold a thread for ever

        def reply(self, status: int, value: dict[str, Any]) -> None:
            content = json.dumps(value, ensure_ascii=False).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.reply(200, {"classes": classifier.classes, "shape": classifier.shape})

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or not 0 < int(length) <= MOST_BYTES:
                self.close_connection = True  # the body is left unread
                self.reply(400, {"error": f"send a picture of 1 to {MOST_BYTES} bytes"})
                return
            content = self.rfile.read(int(length))
            try:
                result = classifier.answer(content)
            except Exception as problem:  # Pillow's decoders raise many kinds of errors on damaged files
                self.reply(400, {"error": f"this is not a picture that can be read: {problem}"})
                return
            self.reply(200, result)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Classify pictures over HTTP with an exported network.")
    parser.add_argument("file", help="the ONNX file that 'geq export RUN --onnx' wrote")
    parser.add_argument("--port", type=int, default=8000)
    asked = parser.parse_args()
    with server(asked.file, asked.port) as running:
        print(f"listening on http://127.0.0.1:{running.server_address[1]}/ (end with Ctrl+C)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            running.serve_forever()
