// plotly.js writes style attributes, which our policy forbids in markup; the same text through CSSOM is allowed.
"use strict";
(() => {
  const set = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function setAttribute(name, value) {
    if (name === "style") this.style.cssText = value;
    else set.call(this, name, value);
  };
})();
