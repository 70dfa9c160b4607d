"""Rules by parameter name, and how VJP, JVP, partial and adjoint turn into each other."""
