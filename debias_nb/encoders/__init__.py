"Encoders: tokens, loading, interventions."
