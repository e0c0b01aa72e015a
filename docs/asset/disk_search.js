// A browser starts no worker from a disk (file://), and the theme then hides its search box.
// Run the theme's search in a hidden frame there: the same script and the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html><title>search</title>";
      this.ready = new Promise((done) => {
        this.frame.onload = () => {
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.onload = () => done(inside);
          script.src = address;
          inside.document.head.append(script);
        };
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
